"""What commands show and keep of a run: terminal displays, log files, tables, videos."""
