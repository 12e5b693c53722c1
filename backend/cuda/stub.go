//go:build !linux || !cgo || nocuda

package cuda

import "github.com/ferrumkv/ferrumkv/backend"

func init() { backend.Register("cuda", 0, absent{}) }

// absent is the driver of a program without CUDA; why is in the files beside.
type absent struct{}

func (absent) Devices() ([]backend.Device, error) { return nil, errAbsent }

func (absent) Open(string) (backend.Backend[backend.AnyBuffer], error) { return nil, errAbsent }

var errAbsent error = backend.ErrUnavailable{Backend: "cuda", Why: why}
