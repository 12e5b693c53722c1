//go:build !linux && !darwin && !freebsd && !windows

package disk

func (f *osFile) Allocate(_, to int64) error { return f.Truncate(to) }
