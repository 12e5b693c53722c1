//go:build cgo && !nometal && metalsimt

package mtl

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/backend/backendtest/gputest"
)

// TestChildLists prints how many devices there are. It is run by TestUnlistedDevice.
func TestChildLists(t *testing.T) {
	if !gputest.InChild() {
		t.Skip("the body of a child process")
	}
	devices, err := Devices()
	fmt.Println("DEVICES", len(devices), err)
	for _, d := range devices {
		require.Positive(t, d.Info.MaxBuffer)
		d.Release()
	}
}

// Where the system lists no device it may have one all the same.
func TestUnlistedDevice(t *testing.T) {
	out := gputest.Child(t, "^TestChildLists$", "FERRUM_SIMT_LISTED=0")
	require.Contains(t, out, "DEVICES 1 <nil>")
	out = gputest.Child(t, "^TestChildLists$", "FERRUM_SIMT_LISTED=0", "FERRUM_SIMT_DEVICES=0")
	require.Contains(t, out, "DEVICES 0 backend: metal is not available: the system lists no Metal device")
}
