package files

import "errors"

// ErrLocked is returned by Lock for a file that is already locked.
var ErrLocked = errors.New("locked by another")
