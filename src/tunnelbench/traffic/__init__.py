"""Programs that offer traffic or measure ciphers: iperf3, the packet engine, ping, `openssl speed`."""
