"""The first start: from machines to a testbed, without a hosts.yaml yet."""
