"""The running exporter: daemon, reloads and demo. The only component that imports all others."""
