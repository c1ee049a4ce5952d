//! `#[derive(Module)]`: one method, `visit`, which goes through the fields in order.
//!
//! A field's path is the module's path and the field's name, so the names of a checkpoint are the names of
//! fields. Plain data (numbers, flags, text) are modules without parameters; a field of any other type that
//! holds none says `#[module(skip)]`.

use proc_macro::TokenStream;
use proc_macro2::TokenStream as Tokens;
use quote::{format_ident, quote};
use syn::{Data, DeriveInput, Error, Field, Fields, Index, Member, parse_macro_input};

/// Derives `olivine_nn::Module`. See the crate's page.
#[proc_macro_derive(Module, attributes(module))]
pub fn derive_module(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    expand(input).unwrap_or_else(Error::into_compile_error).into()
}

fn expand(input: DeriveInput) -> syn::Result<Tokens> {
    let body = match &input.data {
        Data::Struct(s) => {
            let visits = visits(&s.fields, |member| quote!(&mut self.#member))?;
            quote!(#(#visits)*)
        }
        Data::Enum(e) => {
            let mut arms = Vec::new();
            for variant in &e.variants {
                let name = &variant.ident;
                let visits = visits(&variant.fields, |member| {
                    let bound = bound(member);
                    quote!(#bound)
                })?;
                let mut pattern = Vec::new();
                for (at, field) in variant.fields.iter().enumerate() {
                    if !skipped(field)? {
                        let member = member(at, field);
                        let bound = bound(&member);
                        pattern.push(quote!(#member: #bound));
                    }
                }
                arms.push(quote!(Self::#name { #(#pattern,)* .. } => { #(#visits)* }));
            }
            if arms.is_empty() { quote!(match *self {}) } else { quote!(match self { #(#arms)* }) }
        }
        Data::Union(u) => {
            return Err(Error::new(u.union_token.span, "a union cannot be a module"));
        }
    };
    let name = &input.ident;
    let mut generics = input.generics.clone();
    for parameter in input.generics.type_params() {
        let t = &parameter.ident;
        generics.make_where_clause().predicates.push(syn::parse_quote!(#t: ::olivine_nn::Module));
    }
    let (generics, types, bounds) = {
        let (_, types, _) = input.generics.split_for_impl();
        let (g, _, w) = generics.split_for_impl();
        (quote!(#g), quote!(#types), quote!(#w))
    };
    Ok(quote! {
        impl #generics ::olivine_nn::Module for #name #types #bounds {
            fn visit(
                &mut self,
                path: &str,
                visitor: &mut dyn ::olivine_nn::Visitor,
            ) -> ::olivine_nn::Result<()> {
                let _ = (path, &visitor);
                #body
                ::core::result::Result::Ok(())
            }
        }
    })
}

/// One visit for each field that is not skipped.
fn visits(fields: &Fields, place: impl Fn(&Member) -> Tokens) -> syn::Result<Vec<Tokens>> {
    let mut visits = Vec::new();
    for (at, field) in fields.iter().enumerate() {
        if skipped(field)? {
            continue;
        }
        let member = member(at, field);
        let name = match &member {
            // A field called `type` is written `r#type` in Rust and `type` in a checkpoint.
            Member::Named(n) => n.to_string().trim_start_matches("r#").to_owned(),
            Member::Unnamed(i) => i.index.to_string(),
        };
        let place = place(&member);
        visits.push(quote! {
            ::olivine_nn::Module::visit(#place, &::olivine_nn::join(path, #name), visitor)?;
        });
    }
    Ok(visits)
}

fn member(at: usize, field: &Field) -> Member {
    field.ident.clone().map_or_else(|| Member::Unnamed(Index::from(at)), Member::Named)
}

/// The variable that a variant's field is bound to.
fn bound(member: &Member) -> syn::Ident {
    match member {
        Member::Named(n) => format_ident!("field_{}", n),
        Member::Unnamed(i) => format_ident!("field_{}", i.index),
    }
}

fn skipped(field: &Field) -> syn::Result<bool> {
    let mut skip = false;
    for attribute in field.attrs.iter().filter(|a| a.path().is_ident("module")) {
        attribute.parse_nested_meta(|meta| {
            if meta.path.is_ident("skip") {
                skip = true;
                return Ok(());
            }
            Err(meta.error("the one option is `skip`"))
        })?;
    }
    Ok(skip)
}
