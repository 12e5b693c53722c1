package conventions

import (
	"io/fs"
	"net/url"
	"os"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/require"
)

// Links of Markdown, and headings that they can lead to. Code is taken away before links are looked for.
var (
	fence    = regexp.MustCompile("(?ms)^ *(```|~~~).*?^ *(```|~~~) *$")
	codeSpan = regexp.MustCompile("(?s)``.+?``|`[^`\n]*(?:\n[^`\n]+)?`")
	heading  = regexp.MustCompile(`(?m)^ {0,3}#{1,6}[ \t]+(.*?)[ \t]*#*[ \t]*\r?$`)
	named    = regexp.MustCompile(`<a (?:id|name)="([^"]+)"`)
	inline   = regexp.MustCompile(`\]\(\s*<?((?:[^()\s<>]|\([^()\s]*\))*)>?(?:\s+"[^"]*")?\s*\)`)
	defined  = regexp.MustCompile(`(?m)^ {0,3}\[([^\]\n]+)\]:[ \t]*<?([^\s>]+)`)
	referred = regexp.MustCompile(`\[[^\[\]]+\]\[([^\[\]]+)\]`)
	inHTML   = regexp.MustCompile(`(?:href|src)="([^"]*)"`)
	autolink = regexp.MustCompile(`<((?:https?|ftp)://[^>\s]*)>`)
	linkText = regexp.MustCompile(`!?\[([^\[\]]*)\](?:\([^()]*\)|\[[^\[\]]*\])`)
)

// notOurs are folders of a checkout that are not part of the sources.
var notOurs = []string{".git", "build", "bin", "node_modules"}

// repository is the folder of all sources.
var repository = os.DirFS("../..")

// walk visits what lies below a folder and is part of the sources.
func walk(t *testing.T, root fs.FS, visit func(name string, d fs.DirEntry)) {
	require.NoError(t, fs.WalkDir(root, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && slices.Contains(notOurs, name) {
			return fs.SkipDir
		}
		visit(name, d)
		return nil
	}))
}

// documents visits the texts of the repository with one of the extensions, but for test data.
func documents(t *testing.T, visit func(name, text string), extensions ...string) {
	walk(t, repository, func(name string, d fs.DirEntry) {
		if d.IsDir() || !slices.Contains(extensions, path.Ext(name)) || strings.Contains("/"+name, "/testdata/") {
			return
		}
		text, err := fs.ReadFile(repository, name)
		require.NoError(t, err)
		visit(name, string(text))
	})
}

type links struct {
	pages, links int
	broken       []string // with their page and why
}

// linksOf reads all documents below a folder, but for those that are test data.
func linksOf(t *testing.T, root fs.FS) (found links) {
	there := map[string]bool{} // in the case of their names, which not all systems mind
	texts := map[string]string{}
	walk(t, root, func(name string, d fs.DirEntry) {
		there[name] = true
		if !d.IsDir() && path.Ext(name) == ".md" {
			text, err := fs.ReadFile(root, name)
			require.NoError(t, err)
			texts[name] = fence.ReplaceAllString(strings.ReplaceAll(string(text), "\r\n", "\n"), "")
		}
	})
	for page, text := range texts {
		if strings.Contains(page, "/testdata/") {
			continue
		}
		found.pages++
		text = codeSpan.ReplaceAllString(text, "`code`")
		targets, definitions := []string{}, map[string]bool{}
		for _, m := range defined.FindAllStringSubmatch(text, -1) {
			definitions[strings.ToLower(m[1])] = true
			targets = append(targets, m[2])
		}
		for _, m := range referred.FindAllStringSubmatch(text, -1) {
			if !definitions[strings.ToLower(m[1])] {
				found.broken = append(found.broken, page+": "+m[0]+": no such reference")
			}
		}
		for _, form := range []*regexp.Regexp{inline, inHTML, autolink} {
			for _, m := range form.FindAllStringSubmatch(text, -1) {
				if !strings.Contains(m[1], "{{") { // of a template
					targets = append(targets, m[1])
				}
			}
		}
		for _, target := range targets {
			found.links++
			if why := broken(page, target, there, texts); why != "" {
				found.broken = append(found.broken, page+": "+target+": "+why)
			}
		}
	}
	slices.Sort(found.broken)
	return found
}

// broken is why a link of a page leads nowhere, "" if it does lead somewhere. What is on other servers is not asked.
func broken(page, target string, there map[string]bool, texts map[string]string) string {
	u, err := url.Parse(target)
	switch {
	case err != nil:
		return err.Error()
	case u.Scheme != "" || u.Host != "":
		if u.Scheme != "https" || !strings.Contains(u.Host, ".") {
			return "links to other sites are https://host/..."
		}
		return ""
	case strings.HasPrefix(u.Path, "/"):
		return "a link to a file begins at its page"
	}
	file := page
	if u.Path != "" {
		file = path.Join(path.Dir(page), u.Path)
	}
	if file == ".." || strings.HasPrefix(file, "../") {
		return "leads out of the repository"
	}
	if !there[file] {
		return "no such file"
	}
	if u.Fragment == "" {
		if u.Path == "" {
			return "leads nowhere"
		}
		return ""
	}
	text, is := texts[file]
	if !is {
		return "only documents have headings"
	}
	if !slices.Contains(anchors(text), u.Fragment) {
		return "no such heading"
	}
	return ""
}

// anchors are the names that GitHub gives to the headings of a document, and those in its HTML.
func anchors(text string) (names []string) {
	times := map[string]int{}
	for _, m := range heading.FindAllStringSubmatch(text, -1) {
		name := slug(m[1])
		if n := times[name]; n > 0 {
			names = append(names, name+"-"+strconv.Itoa(n))
		} else {
			names = append(names, name)
		}
		times[name]++
	}
	for _, m := range named.FindAllStringSubmatch(text, -1) {
		names = append(names, m[1])
	}
	return names
}

// slug is a heading without marks, in lower case, with hyphens for spaces.
func slug(heading string) string {
	text := linkText.ReplaceAllString(heading, "$1")
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsMark(r) || unicode.IsNumber(r):
			return unicode.ToLower(r)
		}
		return -1
	}, text)
}
