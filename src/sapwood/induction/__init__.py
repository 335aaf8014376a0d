"""Grammar induction: learning parsing models from sentences without trees."""
