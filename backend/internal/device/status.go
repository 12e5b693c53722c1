package device

import (
	"sync/atomic"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/internal/abi"
	"github.com/ferrumkv/ferrumkv/backend/internal/launch"
)

// status is a word that both the host and the device see, in which the kernels of a
// stream collect what they could not quantize: so Sync finds it at the cost of a load. The
// zero status is of a stream that has not quantized anything yet.
type status struct {
	word  *uint32
	place launch.Place // of the same word
}

// status is where the kernels of s report to, made when it is first asked for. The caller
// has begun an operation on s.
func (d *Device[B, S, E, R]) status(s S) (launch.Place, error) {
	m := s.member()
	if m.status.word == nil {
		word, place, err := s.Status()
		if err != nil {
			return launch.Place{}, err
		}
		atomic.StoreUint32(word, 0)
		m.status = status{word, place}
	}
	return m.status.place, nil
}

// collected is an ErrNonFinite, once, where work of s had something that it could not
// quantize. All of it is done, and the caller holds s.
func (d *Device[B, S, E, R]) collected(op string, s S) error {
	word := s.member().status.word
	if word == nil {
		return nil
	}
	what := "a key (and a value)"
	switch atomic.SwapUint32(word, 0) {
	case 0:
		return nil
	case abi.Keys:
		what = "a key"
	case abi.Values:
		what = "a value"
	}
	return backend.ErrNonFinite{Op: op, What: what + " of an earlier append or conversion"}
}
