//! SQLite's grammar, and what `sqlparser` lacks of it: `a IS b` on values, and `GLOB`.

use std::any::TypeId;

use sqlparser::ast::FunctionArgumentList;
use sqlparser::ast::{
    Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, ObjectName, UnaryOperator,
};
use sqlparser::dialect::{Dialect, SQLiteDialect};
use sqlparser::keywords::Keyword;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::Token;

/// How closely `sqlparser` binds `LIKE` and `IS`.
const LIKE: u8 = 19;
const IS: u8 = 17;

/// The dialect.
#[derive(Debug)]
pub(crate) struct Perfetto;

const BELOW: SQLiteDialect = SQLiteDialect {};

impl Dialect for Perfetto {
    fn dialect(&self) -> TypeId {
        TypeId::of::<SQLiteDialect>()
    }

    fn is_delimited_identifier_start(&self, ch: char) -> bool {
        BELOW.is_delimited_identifier_start(ch)
    }

    fn is_identifier_start(&self, ch: char) -> bool {
        BELOW.is_identifier_start(ch)
    }

    fn is_identifier_part(&self, ch: char) -> bool {
        // `$` begins the name of an argument, which a macro's body may have behind another word.
        BELOW.is_identifier_part(ch)
    }

    fn supports_filter_during_aggregation(&self) -> bool {
        true
    }

    fn supports_in_empty_list(&self) -> bool {
        true
    }

    fn supports_limit_comma(&self) -> bool {
        true
    }

    fn supports_asc_desc_in_column_definition(&self) -> bool {
        true
    }

    fn supports_dollar_placeholder(&self) -> bool {
        true
    }

    fn supports_notnull_operator(&self) -> bool {
        true
    }

    fn supports_bitwise_shift_operators(&self) -> bool {
        true
    }

    fn supports_comma_separated_trim(&self) -> bool {
        true
    }

    fn get_next_precedence(&self, parser: &Parser<'_>) -> Option<Result<u8, ParserError>> {
        let is_negated =
            matches!(&parser.peek_token_ref().token, Token::Word(word) if word.keyword == Keyword::NOT);
        is_glob(&parser.peek_nth_token_ref(usize::from(is_negated)).token).then_some(Ok(LIKE))
    }

    fn parse_infix(
        &self,
        parser: &mut Parser<'_>,
        expr: &Expr,
        _precedence: u8,
    ) -> Option<Result<Expr, ParserError>> {
        let Token::Word(word) = &parser.peek_token_ref().token else { return None };
        match word.keyword {
            Keyword::IS if is_of_values(parser) => Some(parse_is(parser, expr)),
            Keyword::NOT if is_glob(&parser.peek_nth_token_ref(1).token) => {
                Some(parse_glob(parser, expr, true))
            }
            _ if is_glob(&parser.peek_token_ref().token) => Some(parse_glob(parser, expr, false)),
            _ => None,
        }
    }
}

pub(crate) fn is_glob(token: &Token) -> bool {
    matches!(token, Token::Word(word) if word.quote_style.is_none() && word.value.eq_ignore_ascii_case("glob"))
}

/// Whether what follows `IS` is none of the words that `sqlparser` takes there.
fn is_of_values(parser: &Parser<'_>) -> bool {
    let keyword = |n| match &parser.peek_nth_token_ref(n).token {
        Token::Word(word) if word.quote_style.is_none() => word.keyword,
        _ => Keyword::NoKeyword,
    };
    let next = if keyword(1) == Keyword::NOT { keyword(2) } else { keyword(1) };
    !matches!(next, Keyword::NULL | Keyword::TRUE | Keyword::FALSE | Keyword::UNKNOWN)
}

/// `a IS b`, `a IS NOT b`, `a IS [NOT] DISTINCT FROM b`.
fn parse_is(parser: &mut Parser<'_>, expr: &Expr) -> Result<Expr, ParserError> {
    parser.next_token();
    let is_negated = parser.parse_keyword(Keyword::NOT);
    let is_distinct = parser.parse_keywords(&[Keyword::DISTINCT, Keyword::FROM]);
    let left = Box::new(expr.clone());
    let right = Box::new(parser.parse_subexpr(IS)?);
    Ok(match is_negated == is_distinct {
        true => Expr::IsNotDistinctFrom(left, right),
        false => Expr::IsDistinctFrom(left, right),
    })
}

/// `text GLOB pattern` is `glob(pattern, text)`.
fn parse_glob(parser: &mut Parser<'_>, expr: &Expr, is_negated: bool) -> Result<Expr, ParserError> {
    if is_negated {
        parser.next_token();
    }
    parser.next_token();
    let pattern = parser.parse_subexpr(LIKE)?;
    let glob = call("glob", [pattern, expr.clone()]);
    Ok(match is_negated {
        true => Expr::UnaryOp { op: UnaryOperator::Not, expr: Box::new(glob) },
        false => glob,
    })
}

/// A function called with these.
pub(crate) fn call(name: &str, args: impl IntoIterator<Item = Expr>) -> Expr {
    let args = args.into_iter().map(|arg| FunctionArg::Unnamed(FunctionArgExpr::Expr(arg))).collect();
    Expr::Function(Function {
        name: ObjectName::from(vec![Ident::new(name)]),
        uses_odbc_syntax: false,
        parameters: FunctionArguments::None,
        args: FunctionArguments::List(FunctionArgumentList {
            duplicate_treatment: None,
            args,
            clauses: Vec::new(),
        }),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: Vec::new(),
    })
}
