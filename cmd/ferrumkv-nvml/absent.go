//go:build !linux || !cgo

package main

import (
	"errors"

	"github.com/ferrumkv/ferrumkv/internal/nvml"
)

func devices() ([]nvml.Reading, error) { return nil, errors.New("built without cgo, or not for Linux") }
