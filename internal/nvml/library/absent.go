//go:build !linux || !cgo

package library

import (
	"errors"

	"github.com/ferrumkv/ferrumkv/internal/nvml"
)

// Devices returns an error: bindings need cgo and Linux.
func Devices() ([]nvml.Reading, error) { return nil, errors.New("built without cgo, or not for Linux") }
