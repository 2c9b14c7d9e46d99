"""The documents: what they tell to type is typed here, what they name exists, what they are made of is in step."""
