"""The simulated Alibaba account: PAI (DLC, PaiStudio, AIWorkSpace), CloudMonitor, STS and a machine's metadata."""
