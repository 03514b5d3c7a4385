"""What the controller writes about Services: Events and conditions."""
