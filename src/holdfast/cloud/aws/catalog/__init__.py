"""What an EC2NodeClass could launch: instance types with their capacity, and offerings with their prices."""
