"""Semi-supervised EM: learning from unlabelled text and partial trees."""
