"""Published methods that no other package here uses; each module contains a method with its formulas and citation."""
