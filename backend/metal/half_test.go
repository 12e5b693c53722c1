//go:build linux && cgo && !nometal && metalsimt

package metal

import (
	"errors"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/internal/standin/metalsimt"
)

// An operation of which a part was committed cannot be tried again: the device is lost. One that
// fails before that is as if it had not been called.
func TestHalfAnOperation(t *testing.T) {
	for _, c := range []struct {
		failing int // of the calls that can fail: a command buffer, and its encoder
		lost    bool
	}{{1, false}, {2, false}, {3, true}, {4, true}} {
		t.Run(strconv.Itoa(c.failing), func(t *testing.T) {
			be := open(t)
			w, p := promptCall(t, be, false)
			be.pace.most, be.pace.groups = 0, 1
			require.NoError(t, be.Attend(w.s, p), "its pipelines are compiled")
			require.NoError(t, w.s.Sync())
			metalsimt.FailCall(c.failing)
			err := be.Attend(w.s, p)
			metalsimt.FailCall(0)
			require.Error(t, err)
			require.Equal(t, c.lost, errors.Is(err, backend.ErrLost), "%v", err)
			if c.lost {
				require.ErrorIs(t, be.Attend(w.s, p), backend.ErrLost)
				return
			}
			require.NoError(t, be.Attend(w.s, p))
			require.NoError(t, w.s.Sync())
		})
	}
}
