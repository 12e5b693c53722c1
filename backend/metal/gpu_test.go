//go:build cgo && !nometal && (darwin || metalsimt)

package metal

import (
	"testing"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/backendtest/gputest"
)

// gpu is how the tests of all GPUs reach this backend.
func gpu() gputest.Device[*Buffer] {
	return gputest.Device[*Buffer]{Kind: "metal", Driver: `^macOS \d+\.\d+$`, NoStream: (*stream)(nil), NoEvent: (*event)(nil),
		Open: func(i int) (backend.Backend[*Buffer], error) {
			be, err := Open(i)
			if err != nil {
				return nil, err
			}
			return be, nil
		},
		Within: func(h backend.Handle, bytes int) backend.Handle {
			h.Offset += int64(bytes)
			return h
		},
		Standin: emulator(),
	}
}

// A Metal device passes what the backends of all GPUs share.
func TestGPU(t *testing.T) { gputest.Run(t, gpu()) }

// BenchmarkStep64 is the host's part of a step of 64 sequences.
func BenchmarkStep64(b *testing.B) { gputest.BenchmarkStep(b, gpu()) }
