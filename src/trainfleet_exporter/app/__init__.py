"""The running exporter: daemon, reloads and demo. It puts the providers, the pages and the web server together."""
