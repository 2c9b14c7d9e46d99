"""The simulated Alibaba PAI account: DLC, PaiStudio and AIWorkSpace."""
