"""What the study of low-rank approximation needs beyond the product: CP decompositions and charts over tree shapes."""
