package below

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/kvcache/tier"
)

// closing is a tier whose Close returns after close is closed.
type closing struct {
	tier.Tier
	name  string
	close chan struct{}
}

func (c closing) Info() tier.Info { return tier.Info{Name: c.name} }

func (c closing) Close() error {
	<-c.close
	return nil
}

// A tier that hangs in Close is named, and the tiers after it are closed.
func TestCloseAllClosesWhatDoesNotHang(t *testing.T) {
	defer func(d time.Duration) { CloseWait = d }(CloseWait)
	CloseWait = 100 * time.Millisecond
	hangs, closes := make(chan struct{}), make(chan struct{})
	defer close(hangs)
	close(closes)
	err := closeAll([]tier.Tier{closing{name: "hangs", close: hangs}, closing{name: "closes", close: closes}})
	require.EqualError(t, err, tier.ErrHung{Name: "hangs", Op: "close"}.Error())
}
