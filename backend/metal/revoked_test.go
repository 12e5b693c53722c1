//go:build linux && cgo && !nometal && metalsimt

package metal

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/backendtest/gputest"
	"github.com/ferrumkv/ferrumkv/internal/standin/metalsimt"
)

// Once the system ignores the process, no device of it can be opened, and the error says
// what helps. Other failures of work leave it a process that may go on.
func TestAccessRevoked(t *testing.T) {
	if !gputest.InChild() {
		require.Contains(t, gputest.Child(t, "^TestAccessRevoked$"), "REVOKED\n")
		return
	}
	fail := func(be *Backend, code int) error {
		s, err := be.NewStream()
		require.NoError(t, err)
		b, err := be.Alloc(backend.U32, 16)
		require.NoError(t, err)
		metalsimt.FailCommands(1, code)
		require.NoError(t, be.Fill(s, b, 0, 16, 1))
		err = s.Sync()
		require.ErrorIs(t, err, backend.ErrLost)
		return err
	}
	for code, words := range map[int]string{metalsimt.Internal: "internal", metalsimt.Timeout: "timeout", metalsimt.PageFault: "page fault",
		metalsimt.NotPermitted: "not permitted", metalsimt.OutOfMemory: "out of memory"} {
		be := openNow(t)
		err := fail(be, code)
		require.NotErrorIs(t, err, backend.ErrUnavailable{})
		require.ErrorContains(t, err, fmt.Sprintf("(MTLCommandBufferErrorDomain %d, %s: ", code, words))
		require.NoError(t, be.Close())
	}
	lost, other := openNow(t), openNow(t)
	err := fail(lost, metalsimt.AccessRevoked)
	require.ErrorContains(t, err, "(MTLCommandBufferErrorDomain 4, access revoked: ")
	require.ErrorContains(t, err, "restart the process")
	require.ErrorIs(t, err, backend.ErrUnavailable{})
	require.NoError(t, lost.Close())

	_, err = Open(0)
	var why backend.ErrUnavailable
	require.ErrorAs(t, err, &why)
	require.Contains(t, why.Why, "restart the process")
	_, err = backend.Open("metal")
	require.ErrorIs(t, err, backend.ErrUnavailable{})
	for _, entry := range backend.List() {
		if strings.HasPrefix(entry.Name, "metal") {
			require.ErrorContains(t, entry.Err, "restart the process")
		}
	}
	s, err := other.NewStream()
	require.NoError(t, err)
	b, err := other.Alloc(backend.U32, 16)
	require.NoError(t, err)
	require.NoError(t, other.Fill(s, b, 0, 16, 1))
	require.ErrorIs(t, s.Sync(), backend.ErrUnavailable{}, "a device that was open")
	require.NoError(t, other.Close())
	fmt.Println("REVOKED")
}
