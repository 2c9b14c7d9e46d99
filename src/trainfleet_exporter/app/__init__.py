"""The running exporter: daemon, reloads and demo. The only room that imports all others."""
