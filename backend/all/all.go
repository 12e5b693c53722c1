// Package all links every device that the platform can have into a program, for
// backend.Open, backend.List and backend.Default to find. Import it for effect:
//
//	import _ "github.com/ferrumkv/ferrumkv/backend/all"
//
// A device that the platform cannot have, or that is missing on this machine, is
// listed with the reason.
package all

import (
	_ "github.com/ferrumkv/ferrumkv/backend/cpu"   // the device that is always there
	_ "github.com/ferrumkv/ferrumkv/backend/cuda"  // NVIDIA GPUs, on Linux
	_ "github.com/ferrumkv/ferrumkv/backend/metal" // Apple GPUs, on macOS
)
