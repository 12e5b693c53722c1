//go:build !(darwin || metalsimt) || !cgo || nometal

package metal

import "github.com/ferrumkv/ferrumkv/backend"

func init() { backend.Register("metal", 0, absent{}) }

// absent is the driver of a program without Metal; why is in the files beside.
type absent struct{}

func (absent) Devices() ([]backend.Device, error) { return nil, errAbsent }

func (absent) Open(string) (backend.Backend[backend.AnyBuffer], error) { return nil, errAbsent }

var errAbsent error = backend.ErrUnavailable{Backend: "metal", Why: why}
