package conventions

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

// Debian's own sources get the sections, with the mirror that they name; others' do not.
func TestDebianSections(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("a script for Debian")
	}
	for name, c := range map[string]struct{ file, have, want string }{
		"paragraphs": {"sources.list.d/debian.sources", `# Debian

Types: deb
URIs: http://mirror.example.org/debian
Suites: bookworm bookworm-updates
Components: main
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg

Types: deb
Components: main contrib non-free-firmware
URIs: mirror+file:///etc/apt/mirrors/debian-security.list
Suites: bookworm-security
`, `# Debian

Types: deb
URIs: http://mirror.example.org/debian
Suites: bookworm bookworm-updates
Components: main contrib non-free
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg

Types: deb
Components: main contrib non-free-firmware non-free
URIs: mirror+file:///etc/apt/mirrors/debian-security.list
Suites: bookworm-security
`},
		"lines": {"sources.list", `# deb http://mirror.example.org/debian bookworm main
deb http://mirror.example.org/debian bookworm main
deb [arch=amd64 signed-by=/usr/share/keyrings/a.gpg] https://mirror.example.org/debian bookworm-updates main non-free-firmware # as installed
deb-src http://mirror.example.org/debian bookworm main contrib non-free
deb http://mirror.example.org/debian-security bookworm-security main
`, `# deb http://mirror.example.org/debian bookworm main
deb http://mirror.example.org/debian bookworm main contrib non-free
deb [arch=amd64 signed-by=/usr/share/keyrings/a.gpg] https://mirror.example.org/debian bookworm-updates main non-free-firmware contrib non-free # as installed
deb-src http://mirror.example.org/debian bookworm main contrib non-free
deb http://mirror.example.org/debian-security bookworm-security main contrib non-free
`},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			others := map[string]string{
				"docker.list":   "deb https://download.example.org/linux/debian bookworm stable\n",
				"pgdg.list":     "deb https://apt.example.org/pub/debian bookworm-pgdg main\n",
				"prod.list":     "deb [arch=amd64] https://packages.example.org/debian/12/prod bookworm main\n",
				"other.sources": "Types: deb\nURIs: https://packages.example.org/apt\nSuites: bookworm\nComponents: main\n",
			}
			path := filepath.Join(root, "etc/apt", c.file)
			require.NoError(t, os.MkdirAll(filepath.Join(root, "etc/apt/sources.list.d"), 0o755))
			require.NoError(t, os.WriteFile(filepath.Join(root, "etc/os-release"), []byte("ID=debian\nVERSION_CODENAME=bookworm\n"), 0o644))
			for file, text := range others {
				require.NoError(t, os.WriteFile(filepath.Join(root, "etc/apt/sources.list.d", file), []byte(text), 0o644))
			}
			extend := func() error { return exec.Command("../../scripts/debian-sections", root).Run() }
			require.Error(t, extend(), "no source is Debian's")

			require.NoError(t, os.WriteFile(path, []byte(c.have), 0o644))
			for range 2 { // the second time changes nothing
				require.NoError(t, extend())
				got, err := os.ReadFile(path)
				require.NoError(t, err)
				require.Equal(t, c.want, string(got))
			}
			for file, text := range others {
				got, err := os.ReadFile(filepath.Join(root, "etc/apt/sources.list.d", file))
				require.NoError(t, err)
				require.Equal(t, text, string(got))
			}
		})
	}
}
