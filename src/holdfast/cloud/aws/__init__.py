"""The AWS implementation of `ports.Cloud`: EC2, Fleet, reservations, prices, instance types, AMIs, SQS."""
