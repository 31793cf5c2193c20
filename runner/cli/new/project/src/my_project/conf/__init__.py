"""Options and recipes as YAML: `conf/GROUP/NAME.yaml` is the option `GROUP=NAME`."""
