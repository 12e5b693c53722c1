package kind

// full sees everything. Masks of its layers may hide some of it.
type full struct{ Base }

func (full) Name() string { return "full" }
