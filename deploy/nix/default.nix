# nix-build deploy/nix, or, of a release's llada.nix:  nix-build llada.nix --arg source ./llada-0.1.0-source.tar.gz
{ pkgs ? import <nixpkgs> { }, source ? ../.. }:
pkgs.stdenv.mkDerivation {
  name = "llada";
  src = source;
  nativeBuildInputs = with pkgs; [ cmake ninja pkg-config ];
  buildInputs = with pkgs; [ boost cli11 curl fmt libedit nlohmann_json openssl pcre2 sqlite utf8proc ];
  cmakeFlags = [ "-DLLADA_TESTS=OFF" "-DLLADA_UNITY=ON" "-DLLADA_PCH=ON" "-DLLADA_CUDA=OFF" ];
  doInstallCheck = true;
  installCheckPhase = ''
    test "$($out/bin/llada run tiny-llada 'Sort the numbers from smallest to largest: 38 41 6 51 3' -q)" = "3 6 38 41 51"
  '';
  meta = {
    description = "Engine for diffusion language models";
    license = pkgs.lib.licenses.mit;
    mainProgram = "llada";
    platforms = pkgs.lib.platforms.unix;
  };
}
