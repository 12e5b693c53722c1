package conventions

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

// The toolkit comes from the mirror that the system's own sources of Debian name, by the keys that
// they name; nothing comes from others, and the sources stay as they are.
func TestToolkitSources(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("a script for Debian")
	}
	const (
		paragraphs = `# Debian

Types: deb
URIs: http://mirror.example.org/debian
Suites: bookworm bookworm-updates
Components: main
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg

Types: deb
Components: main contrib non-free-firmware
URIs: http://mirror.example.org/debian-security
Suites: bookworm-security

Types: deb-src
URIs: http://sources.example.org/debian
Suites: bookworm
Components: main

Enabled: no
Types: deb
URIs: http://old.example.org/debian
Suites: bookworm
Components: main

Types: deb deb-src
URIs: mirror+file:///etc/apt/mirrors/debian.list
Suites: trixie
Components: main
Signed-By:
 -----BEGIN PGP PUBLIC KEY BLOCK-----
 .
 mDMEXTSTIN
 -----END PGP PUBLIC KEY BLOCK-----`
		lines = `# deb http://commented.example.org/debian bookworm main
deb [arch=amd64 signed-by=/usr/share/keyrings/a.gpg] https://mirror.example.org/debian/ bookworm main non-free-firmware # as installed
deb-src http://mirror.example.org/debian bookworm main contrib non-free
deb http://mirror.example.org/debian-security bookworm-security main
deb http://other.example.org/debian bookworm main
deb http://other.example.org/debian bookworm-updates main
`
	)
	for name, c := range map[string]struct{ file, have, want string }{
		"paragraphs": {"sources.list.d/debian.sources", paragraphs, `Types: deb
URIs: http://mirror.example.org/debian
Suites: trixie
Components: main contrib non-free
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg

Types: deb
URIs: mirror+file:///etc/apt/mirrors/debian.list
Suites: trixie
Components: main contrib non-free
Signed-By: 
 -----BEGIN PGP PUBLIC KEY BLOCK-----
 .
 mDMEXTSTIN
 -----END PGP PUBLIC KEY BLOCK-----

`},
		"lines": {"sources.list", lines, `Types: deb
URIs: https://mirror.example.org/debian/
Suites: trixie
Components: main contrib non-free
Signed-By: /usr/share/keyrings/a.gpg

Types: deb
URIs: http://other.example.org/debian
Suites: trixie
Components: main contrib non-free

`},
	} {
		t.Run(name, func(t *testing.T) {
			etc := t.TempDir()
			require.NoError(t, os.Mkdir(filepath.Join(etc, "sources.list.d"), 0o755))
			files := map[string]string{
				"sources.list.d/docker.list":   "deb https://download.example.org/linux/debian bookworm stable\n",
				"sources.list.d/pgdg.list":     "deb https://apt.example.org/pub/debian bookworm-pgdg main\n",
				"sources.list.d/prod.list":     "deb [arch=amd64] https://packages.example.org/debian/12/prod bookworm main\n",
				"sources.list.d/other.sources": "Types: deb\nURIs: https://packages.example.org/apt\nSuites: bookworm\nComponents: main\n",
			}
			sources := func() string {
				for file, text := range files {
					require.NoError(t, os.WriteFile(filepath.Join(etc, file), []byte(text), 0o644))
				}
				out, err := exec.Command("../../scripts/unpack-cuda-toolkit", "sources", etc).Output()
				require.NoError(t, err)
				for file, text := range files {
					now, err := os.ReadFile(filepath.Join(etc, file))
					require.NoError(t, err)
					require.Equal(t, text, string(now))
				}
				return string(out)
			}
			require.Empty(t, sources(), "no source is Debian's")
			files[c.file] = c.have
			require.Equal(t, c.want, sources())
		})
	}
}

// A toolkit that is not there is not looked for elsewhere, nor made unless asked for.
func TestToolkitIsNotInstalledUnasked(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("a script for Debian")
	}
	cmd := exec.Command("../../scripts/unpack-cuda-toolkit", "installed")
	dir := filepath.Join(t.TempDir(), "toolkit")
	cmd.Env = []string{"PATH=/usr/bin:/bin", "FERRUM_CUDA_TOOLKIT=" + dir, "HOME=" + t.TempDir()}
	if _, err := exec.LookPath("/usr/bin/nvcc"); err == nil {
		t.Skip("this machine has one in /usr/bin")
	}
	out, err := cmd.Output()
	require.NoError(t, err)
	require.Empty(t, string(out))
	require.NoDirExists(t, dir)
}
