create perfetto macro _same(x Expr) returns Expr as $x;

-- A list without the parentheses around it, for where a list has none: `(a, b)` becomes `a, b`.
create perfetto macro metasql_unparenthesize_exprlist(
    -- The list in parentheses.
    expr ExprList)
returns UnparenExprList as __intrinsic_token_apply!(_same, $expr);
