package audioproxy

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A panic in a goroutine that nobody recovers ends Caddy with all its sites. So every goroutine and callback of ours
// begins in package guard, and this test reads the code for others.
func TestEveryGoroutineIsGuarded(t *testing.T) {
	files := token.NewFileSet()
	guarded := 0
	err := filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && slices.Contains([]string{"guard", "tools", "testdata", "bin", ".cache", ".git"}, path):
			return fs.SkipDir
		case !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		file, err := parser.ParseFile(files, path, nil, 0)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.GoStmt:
				t.Errorf("%s: a bare go statement: use guard.Go", files.Position(n.Pos()))
			case *ast.CallExpr:
				if startsElsewhere(n) && !slices.ContainsFunc(n.Args, isGuarded) {
					t.Errorf("%s: a callback that is not guarded: use guard.Func", files.Position(n.Pos()))
				}
				if receiver, name := called(n); receiver == "guard" && name != "Do" {
					guarded++
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if guarded < 10 {
		t.Errorf("found %d guarded goroutines and callbacks: is the test looking in the right place?", guarded)
	}
}

// startsElsewhere reports whether a call hands a function to somebody who will call it on a goroutine that recovers
// nothing.
func startsElsewhere(call *ast.CallExpr) bool {
	receiver, name := called(call)
	switch name {
	case "AfterFunc", "AddCleanup", "SetFinalizer", "RegisterOnShutdown", "OnExit", "DoChan":
		return true
	case "Go":
		return receiver != "guard"
	}
	return false
}

func called(call *ast.CallExpr) (receiver, name string) {
	selector, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return "", ""
	}
	if x, ok := selector.X.(*ast.Ident); ok {
		receiver = x.Name
	}
	return receiver, selector.Sel.Name
}

// isGuarded reports whether an argument is guard.Func(…), or a function that says of itself that it is guarded.
func isGuarded(arg ast.Expr) bool {
	if call, ok := arg.(*ast.CallExpr); ok {
		receiver, name := called(call)
		return receiver == "guard" && name == "Func"
	}
	name, ok := arg.(*ast.Ident)
	return ok && strings.HasPrefix(name.Name, "guarded")
}
