// What no constructor made.

package pubsub

import (
	"testing"

	"github.com/ferrumkv/ferrumkv/internal/testutil/zerotest"
)

func TestZeroValues(t *testing.T) {
	zerotest.Check(t, zerotest.Types{
		Made:  []any{new(Publisher), new(Subscriber)},
		Plain: []any{new(ErrFull), new(ErrArgument), new(ErrWaiting), new(Reset)},
	})
}
