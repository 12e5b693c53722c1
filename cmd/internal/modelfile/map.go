package modelfile

import (
	"errors"
	"io/fs"
	"os"

	"github.com/edsrzf/mmap-go"
)

// Map maps a file into memory, which reads of it only what is looked at. The file must not become shorter until end is called, which
// ends the mapping: nothing may be looked at afterwards. Errors are of *fs.PathError.
func Map(name string) (data []byte, end func() error, err error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, nil, err
	}
	info, err := f.Stat()
	if err != nil || info.Size() == 0 { // which cannot be mapped
		return nil, func() error { return nil }, errors.Join(err, f.Close())
	}
	m, err := mmap.Map(f, mmap.RDONLY, 0)
	if err = errors.Join(err, f.Close()); err != nil { // a mapping outlives its file
		return nil, nil, &fs.PathError{Op: "map", Path: name, Err: err}
	}
	largePages(m)
	return m, m.Unmap, nil
}
