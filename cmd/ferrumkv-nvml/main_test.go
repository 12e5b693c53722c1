package main

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/internal/nvml"
)

// What the program prints is what Read of internal/nvml decodes.
func TestPrint(t *testing.T) {
	want := []nvml.Reading{{Bus: "00000000:3B:00.0", Name: "a device", Celsius: 41, Throttled: []string{"heat"}}}
	var out bytes.Buffer
	require.NoError(t, write(&out, want))
	var got []nvml.Reading
	require.NoError(t, json.Unmarshal(out.Bytes(), &got))
	require.Equal(t, want, got)

	out.Reset()
	require.NoError(t, write(&out, nil))
	require.Equal(t, "[]\n", out.String())
}
