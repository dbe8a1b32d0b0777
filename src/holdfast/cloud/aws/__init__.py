"""AWS behind the Cloud door: EC2, Fleet, reservations, prices, instance types, AMIs, SQS."""
