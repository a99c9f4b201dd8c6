package urlapi

import "strings"

// Bounds of a local path, before it is folded.
const (
	maxLocalBytes      = 1024
	maxLocalComponents = 64
)

// checkLocalBounds comes before anything that walks the path, so that no path can be made expensive to refuse.
func checkLocalBounds(path string) (reason string) {
	if len(path) > maxLocalBytes {
		return "path too long"
	}
	if strings.Count(path, "/")+1 > maxLocalComponents {
		return "path too deep"
	}
	return ""
}

// parseLocal folds away what does not change where the path leads. "a/../b" stays below the root and becomes "b" even
// where a is a symbolic link: the folded path is both the identity and what is opened, so the two cannot differ.
func parseLocal(path string) (Source, string) {
	if strings.HasPrefix(path, "/") {
		return Source{}, "absolute path"
	}
	var folded []string
	for component := range strings.SplitSeq(path, "/") {
		switch component {
		case "", ".":
		case "..":
			if len(folded) == 0 {
				return Source{}, "path climbs out of the root"
			}
			folded = folded[:len(folded)-1]
		default:
			folded = append(folded, component)
		}
	}
	if len(folded) == 0 {
		return Source{}, "empty path"
	}
	relative := strings.Join(folded, "/")
	return Source{Scheme: SchemeLocal, Path: relative, canonical: SchemeLocal + "://" + relative}, ""
}
