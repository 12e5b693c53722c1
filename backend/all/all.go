// Package all links every device that the platform can have into a program, for
// backend.Open, backend.List and backend.Default to find. Import it for effect:
//
//	import _ "github.com/ferrumkv/ferrumkv/backend/all"
//
// Today that is the CPU; GPU drivers join here.
package all

import _ "github.com/ferrumkv/ferrumkv/backend/cpu" // the device that is always there
