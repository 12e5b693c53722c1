package disk

import "github.com/ferrumkv/ferrumkv/internal/files"

// Allocate makes the file longer: its file systems take room when it is written to.
func (f *osFile) Allocate(_, to int64) error {
	return f.allocated(to, files.Again(func() error { return f.Truncate(to) }))
}
