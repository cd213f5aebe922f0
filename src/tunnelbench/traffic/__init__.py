"""What is offered to the path: TCP by iperf3, ping."""
