"""The entity graph itself: names, rules that find them, building, storing."""
