//go:build cgo && !nometal

package metal

import "github.com/ferrumkv/ferrumkv/backend/internal/gputest"

// emulator is nothing: a Mac's own framework cannot be made to fail.
func emulator() *gputest.Standin { return nil }
