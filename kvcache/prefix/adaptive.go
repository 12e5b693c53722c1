package prefix

func newAdaptive() ranker { return segmented{} }
