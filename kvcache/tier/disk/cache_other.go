//go:build !linux

package disk

// forget tells that the system cannot be asked to forget what it keeps of a file in memory.
func (f *osFile) forget() bool { return false }
