"""Models of grammar induction: DMV, CCM, PCFGs and tensor PCFGs."""
