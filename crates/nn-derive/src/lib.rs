//! `#[derive(Module)]`: one method, `visit`, which goes through the fields in order, and the module as a tree of
//! its arrays, which is made of it.
//!
//! A field's path is the module's path and the field's name, so the names of a checkpoint are the names of
//! fields. Plain data (numbers, flags, text) are modules without parameters; a field of any other type that
//! holds none says `#[module(skip)]`.

use proc_macro::TokenStream;
use proc_macro2::TokenStream as Tokens;
use quote::{format_ident, quote};
use syn::{
    Attribute, Data, DeriveInput, Error, Field, Fields, Generics, Index, LitStr, Member, Path,
    parse_macro_input,
};

/// Derives `olivine_nn::Module`. See the crate's page.
#[proc_macro_derive(Module, attributes(module))]
pub fn derive_module(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    expand(input).unwrap_or_else(Error::into_compile_error).into()
}

fn expand(input: DeriveInput) -> syn::Result<Tokens> {
    let nn = options(&input.attrs)?.nn.unwrap_or_else(library);
    let body = match &input.data {
        Data::Struct(s) => {
            let visits = visits(&nn, &s.fields, |member| quote!(&mut self.#member))?;
            quote!(#(#visits)*)
        }
        Data::Enum(e) => {
            let mut arms = Vec::new();
            for variant in &e.variants {
                let name = &variant.ident;
                let visits = visits(&nn, &variant.fields, |member| {
                    let bound = bound(member);
                    quote!(#bound)
                })?;
                let mut pattern = Vec::new();
                for (at, field) in variant.fields.iter().enumerate() {
                    if !options(&field.attrs)?.skip {
                        let member = member(at, field);
                        let bound = bound(&member);
                        pattern.push(quote!(#member: #bound));
                    }
                }
                let variant = name.to_string();
                arms.push(quote!(Self::#name { #(#pattern,)* .. } => {
                    visitor.setting(path, #variant.as_bytes())?;
                    #(#visits)*
                }));
            }
            if arms.is_empty() { quote!(match *self {}) } else { quote!(match self { #(#arms)* }) }
        }
        Data::Union(u) => {
            return Err(Error::new(u.union_token.span, "a union cannot be a module"));
        }
    };
    let name = &input.ident;
    let (_, types, _) = input.generics.split_for_impl();
    let bounded = generics_of(&input.generics, &nn);
    let (generics, _, bounds) = bounded.split_for_impl();
    let tree = {
        let mut generics = generics_of(&input.generics, &nn);
        if !input.generics.params.is_empty() {
            generics
                .make_where_clause()
                .predicates
                .push(syn::parse_quote!(#name #types: ::core::clone::Clone));
        }
        let (generics, _, bounds) = generics.split_for_impl();
        quote! {
            impl #generics #nn::Tree for #name #types #bounds {
                fn visit(&self, f: &mut dyn ::core::ops::FnMut(&#nn::Array)) {
                    #nn::tree::visit(self, f);
                }
                fn map(
                    &self,
                    f: &mut dyn ::core::ops::FnMut(&#nn::Array) -> #nn::Result<#nn::Array>,
                ) -> #nn::Result<Self> {
                    #nn::tree::map(self, f)
                }
                fn sign(&self, signature: &mut #nn::Signature) {
                    #nn::tree::sign(self, signature);
                }
            }
        }
    };
    Ok(quote! {
        impl #generics #nn::Module for #name #types #bounds {
            fn visit(&mut self, path: &str, visitor: &mut dyn #nn::Visitor) -> #nn::Result<()> {
                let _ = (path, &visitor);
                #body
                ::core::result::Result::Ok(())
            }
        }
        #tree
    })
}

/// The parameters of a type, those that are types being modules.
fn generics_of(generics: &Generics, nn: &Path) -> Generics {
    let mut all = generics.clone();
    for parameter in generics.type_params() {
        let t = &parameter.ident;
        all.make_where_clause().predicates.push(syn::parse_quote!(#t: #nn::Module));
    }
    all
}

/// One visit for each field that is not skipped.
fn visits(nn: &Path, fields: &Fields, place: impl Fn(&Member) -> Tokens) -> syn::Result<Vec<Tokens>> {
    let mut visits = Vec::new();
    for (at, field) in fields.iter().enumerate() {
        let options = options(&field.attrs)?;
        if options.skip {
            continue;
        }
        let member = member(at, field);
        let name = options.name.unwrap_or_else(|| match &member {
            // A field called `type` is written `r#type` in Rust and `type` in a checkpoint.
            Member::Named(n) => n.to_string().trim_start_matches("r#").to_owned(),
            Member::Unnamed(i) => i.index.to_string(),
        });
        let place = place(&member);
        visits.push(quote! {
            #nn::Module::visit(#place, &#nn::join(path, #name), visitor)?;
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

/// What attributes say.
#[derive(Default)]
struct Options {
    skip: bool,
    name: Option<String>,
    nn: Option<Path>,
}

fn options(attributes: &[Attribute]) -> syn::Result<Options> {
    let mut options = Options::default();
    for attribute in attributes.iter().filter(|a| a.path().is_ident("module")) {
        attribute.parse_nested_meta(|meta| {
            if meta.path.is_ident("skip") {
                options.skip = true;
            } else if meta.path.is_ident("name") {
                options.name = Some(meta.value()?.parse::<LitStr>()?.value());
            } else if meta.path.is_ident("crate") {
                options.nn = Some(meta.value()?.parse::<LitStr>()?.parse()?);
            } else {
                return Err(meta.error("the options are `skip`, `name` and, on the type, `crate`"));
            }
            Ok(())
        })?;
    }
    Ok(options)
}

/// Where the names of olivine-nn are for the crate that is being compiled: under `olivine::nn` if it depends on
/// `olivine` alone. `#[module(crate = "…")]` says otherwise.
fn library() -> Path {
    let folder = std::env::var_os("CARGO_MANIFEST_DIR").map(std::path::PathBuf::from).unwrap_or_default();
    let manifest = std::fs::read_to_string(folder.join("Cargo.toml")).unwrap_or_default();
    // A dependency is the start of a line (`olivine = …`, `olivine.workspace = …`) or the end of a table's name.
    let depends = |name: &str| {
        manifest.lines().map(str::trim).any(|line| {
            let key = line.split(['=', ' ']).next().unwrap_or_default();
            key == name
                || key.strip_prefix(name).is_some_and(|rest| rest.starts_with('.'))
                || line
                    .strip_suffix(']')
                    .is_some_and(|table| table.ends_with(&format!("dependencies.{name}")))
        })
    };
    if !depends("olivine-nn") && depends("olivine") {
        syn::parse_quote!(::olivine::nn)
    } else {
        syn::parse_quote!(::olivine_nn)
    }
}
