package disk

// Allocate makes the file longer: its file systems take room when it is written to.
func (f *osFile) Allocate(_, to int64) error {
	return f.allocated(to, again(func() error { return f.Truncate(to) }))
}
