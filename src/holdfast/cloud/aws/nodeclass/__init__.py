"""The status of an EC2NodeClass: images, subnets, security groups, profiles, reservations and the cluster."""
